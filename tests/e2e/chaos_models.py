"""The checks of chaos.py on the larger models, and a device that is frozen for 20 s."""

from chaos import CHECKS, check_a_frozen_device_that_thaws, tests_of
from runner import run


def test_a_device_frozen_for_20_s_and_back():
    check_a_frozen_device_that_thaws("mobilenetv2", 20)


for model in ("resnet8", "mobilenetv2"):
    globals().update(tests_of(model, CHECKS))

if __name__ == "__main__":
    run(globals())
