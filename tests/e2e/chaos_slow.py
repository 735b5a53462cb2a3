"""Further checks of chaos.py, and all of them on larger models; a device frozen for 20 s; random
schedules 7 to 50, and 20 with a job of sub-models.
"""

from chaos import ALIKE, CHECKS, check_a_frozen_device_that_thaws, tests_of
from chaos_random import tests_of_parents, tests_of_seeds
from runner import run


def test_a_device_frozen_for_20_s_and_back():
    check_a_frozen_device_that_thaws("mobilenetv2", 20)


globals().update(tests_of("lenet5", ALIKE))
for model in ("resnet8", "mobilenetv2"):
    globals().update(tests_of(model, CHECKS))
globals().update(tests_of_seeds(7, 50))
globals().update(tests_of_parents(1, 20))

if __name__ == "__main__":
    run(globals())
