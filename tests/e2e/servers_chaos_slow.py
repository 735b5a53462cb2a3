"""More failures of workers and servers (servers_chaos.py)."""

import servers_chaos
from runner import run

if __name__ == "__main__":
    run(
        {
            f"test_{name.removeprefix('check_')}": check
            for name, check in vars(servers_chaos).items()
            if name.startswith("check_")
        }
    )
