"""What always fails must stop the run; what fails now and then must not."""

import pytest
from toy_envs import ToyShopEnv

from agent_envs.errors import ServiceDownError
from agent_envs.groups import GroupVectorEnv

DOWN = {"task_index": [4, 4]}
HALF = {"task_index": [4, 1]}
UP = {"task_index": 1}


def batch():
    return GroupVectorEnv(lambda: ToyShopEnv(fail_resets=(4,)), num_envs=4, group_size=2)


def test_three_successive_batches_raise_with_the_first_error():
    vec = batch()
    vec.reset(options=DOWN)
    vec.reset(options=DOWN)
    with pytest.raises(ServiceDownError, match="3 successive batches") as caught:
        vec.reset(options=DOWN)
    assert "First error: error_env: RuntimeError: no shop 4\nTraceback" in str(caught.value)


def test_half_of_the_rows_is_not_more_than_half():
    vec = batch()
    for _ in range(5):
        vec.reset(options=HALF)


def test_a_good_batch_in_between_starts_the_count_again():
    vec = batch()
    for options in (DOWN, DOWN, UP, DOWN, DOWN, UP):
        vec.reset(options=options)


def test_idle_groups_do_not_count_as_rows():
    vec = batch()
    options = {"task_index": [4, -1]}
    vec.reset(options=options)
    vec.reset(options=options)
    with pytest.raises(ServiceDownError, match="half of the 2 rows"):
        vec.reset(options=options)


def test_failing_steps_count_too_and_the_first_error_is_named():
    vec = batch()
    for fault in ("fault service", "fault raise"):
        vec.reset(options=UP)
        vec.step([fault] * 3 + ["draw"])
    vec.reset(options=UP)
    vec.step(["fault raise", "fault raise", "draw", "draw"])
    with pytest.raises(ServiceDownError, match="error_service: ServiceGone: 503"):
        vec.step(["draw", "draw", "fault raise", "draw"])


def test_after_the_repair_the_batch_can_be_used_again():
    vec = batch()
    vec.reset(options=DOWN)
    vec.reset(options=DOWN)
    with pytest.raises(ServiceDownError):
        vec.reset(options=DOWN)
    assert vec.reset(options=UP)[1]["active"].all()
    vec.reset(options=DOWN)
    vec.reset(options=DOWN)
