"""Templates of Sokoban: text, image, and both."""

from agent_envs.prompts.library.base import EnvPrompts, compact
from agent_envs.prompts.template import TemplateSet

_TASK = """You are playing Sokoban. Your goal is to push every box onto a target square.

Rules: a move takes you one square up, down, left or right. If a box is in the way, it is pushed one square ahead, \
provided the square behind it is free; otherwise nothing moves. You can push one box at a time and can never pull. A \
box in a corner cannot be moved any more, so think before you push.
"""
_LEGEND = """
The board is drawn with these symbols:
# wall
_ free floor
O target
X box
√ box on a target
P you
S you on a target
"""
_PICTURE = """
In the picture, bricks are walls, a red square is a target, a yellow box is off its target, a green box is on one, and \
the figure is you.
"""
_END = """
Which way do you move: up, down, left or right?
{format_instructions}"""
_HISTORY = """
Turns so far: {step_count}. The last {history_length}, oldest first:
{action_history}

Turn {current_step}. """

_text = f"{_TASK}{_LEGEND}"
_image = f"{_TASK}{_PICTURE}\nThe board now:\n<image>\n{_END}"
_both = f"{_TASK}{_LEGEND}{_PICTURE}"
_now = "The board now:\n{current_observation}\n"
_now_both = "The board now:\n<image>\n{current_observation}\n"

PROMPTS = EnvPrompts(
    sets={
        ("papers", "text"): TemplateSet(first=f"{_text}\n{_now}{_END}", later=f"{_text}{_HISTORY}{_now}{_END}"),
        ("papers", "image"): TemplateSet(first=_image, later=_image),
        ("papers", "image_text"): TemplateSet(
            first=f"{_both}\n{_now_both}{_END}", later=f"{_both}{_HISTORY}{_now_both}{_END}"
        ),
        **compact(image=True),
    },
)
"""The papers' setting with images shows no history."""
