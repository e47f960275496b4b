"""Templates of the card and number games; the papers show no history in any of them."""

from dataclasses import replace

from agent_envs.envs.cards import actions
from agent_envs.json_reply import JsonOrTagSpec
from agent_envs.prompts.library.base import EnvPrompts, compact
from agent_envs.prompts.template import TemplateSet

_FORMULA = """You are playing a card game. Use the numbers on the {cards} cards, each exactly once, to write a formula \
with the value {target}. An ace counts as 1; J, Q and K count as 10. In each turn you append one symbol to the \
formula; a number can be appended only while one of its cards is unused.
The symbols are: {symbols}. Append = when the formula is complete: this ends the game.
"""
_EZPOINTS = _FORMULA.format(cards="two", target="12", symbols="1 2 3 4 5 6 7 8 9 10 + * =")
_POINTS24 = _FORMULA.format(cards="four", target="24", symbols="1 2 3 4 5 6 7 8 9 10 + - * / ( ) =")
_NUMBERLINE = """You move along a number line. Bring the current number to the target number. In each turn the action \
- makes the current number smaller by one and the action + makes it larger by one.
"""
_BLACKJACK = """You are playing Blackjack against the dealer. Get closer to 21 than the dealer without going over it. \
An ace counts as 1 or 11; J, Q and K count as 10. You see one of the dealer's cards. In each turn, hit takes another \
card and stand ends your turn.
"""
_SEE_CARDS = "The picture shows your cards and the formula so far.\n<image>\n"


def _prompts(
    task: str, *, modes: dict[str, str], obs_mode: str, ask: str, vocabulary: actions.Vocabulary
) -> EnvPrompts:
    """Return the sets ``papers`` and ``json`` over the observation modes, and ``compact``."""
    sets = compact(image=True)
    for mode, body in modes.items():
        text = f"{task}\n{body}\n{ask}\n{{format_instructions}}"
        tags = JsonOrTagSpec(symbols=vocabulary.spellings)
        sets["papers", mode] = TemplateSet(first=text, later=text, spec=tags)
        sets["json", mode] = TemplateSet(first=text, later=text, spec=replace(tags, ask="json"))
    return EnvPrompts(sets=sets, obs_mode=obs_mode)


def _formula_game(task: str, vocabulary: actions.Vocabulary) -> EnvPrompts:
    modes = {"text": "{text_formula}\n", "image": _SEE_CARDS, "image_text": _SEE_CARDS + "{text_formula}\n"}
    return _prompts(
        task, modes=modes, obs_mode="image_text", ask="Which symbol do you append next?", vocabulary=vocabulary
    )


def _picture_game(task: str, picture: str, ask: str, vocabulary: actions.Vocabulary) -> EnvPrompts:
    image = f"{picture}\n<image>\n"
    modes = {"text": "{current_observation}\n", "image": image, "image_text": image}
    return _prompts(task, modes=modes, obs_mode="image", ask=ask, vocabulary=vocabulary)


EZPOINTS = _formula_game(_EZPOINTS, actions.EZPOINTS)
POINTS24 = _formula_game(_POINTS24, actions.POINTS24_FACES)
NUMBERLINE = _picture_game(
    _NUMBERLINE,
    "The picture shows the target number and the current number.",
    "Which action do you take: + or -?",
    actions.NUMBERLINE,
)
BLACKJACK = _picture_game(
    _BLACKJACK, "The picture shows the dealer's cards and yours.", "What do you do: hit or stand?", actions.BLACKJACK
)
