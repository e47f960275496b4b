import pytest

from agent_envs.trainers.verl.curve import draw, main, read_console

LOG = """(TaskRunner pid=1) step:0 - val-core/EZPoints-v0/acc/mean@1:np.float64(0.2) - val-aux/num_turns/min:np.int64(1)
noise: 3
(TaskRunner pid=1) step:1 - rollout/success:0.25 - actor/lr:3e-05 - x/nan:nan
(TaskRunner pid=1) step:2 - rollout/success:0.5 - val-core/EZPoints-v0/acc/mean@1:np.float64(0.4)
"""


def test_console_lines_are_read():
    lines = read_console(LOG)
    assert [line["step"] for line in lines] == [0, 1, 2]
    assert lines[0]["val-core/EZPoints-v0/acc/mean@1"] == 0.2 and lines[1]["actor/lr"] == 3e-05


def test_picture(tmp_path):
    pytest.importorskip("matplotlib")
    log, picture = tmp_path / "run.log", tmp_path / "curve.png"
    log.write_text(LOG)
    assert main([str(log), str(picture), "100"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="console log"):
        draw(read_console("nothing"), picture, title="x")
    assert main([]) == 2
