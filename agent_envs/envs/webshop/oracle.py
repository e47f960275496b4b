"""A shopper who knows the goal product: the walk that shows a goal can be met."""

from agent_envs.envs.webshop import pages
from agent_envs.envs.webshop.engine import Engine
from agent_envs.envs.webshop.goals import Goal
from agent_envs.envs.webshop.reward import option_matches
from agent_envs.envs.webshop.session import Session

_PAGES_PER_QUERY = 5


def oracle_actions(engine: Engine, goal_index: int) -> list[str]:
    """Return the actions that buy a goal's own product with the wanted options.

    The product is looked for with the instruction, then with its title, on up to five pages of results each, and at
    last in the list of all products with its search words, which may take many pages. The score is 1.0 unless the
    product lacks a wanted option, or an option value cannot be named in an action.

    Raises:
        ValueError: If the catalogue lacks the goal's product or it cannot be reached.
    """
    session = engine.session(goal_index)
    goal = session.goal
    try:
        product = engine.catalogue.products[engine.catalogue.row(goal.asin)]
    except KeyError:
        raise ValueError(f"The catalogue has no product {goal.asin!r}, wanted by goal {goal_index}.") from None
    attempts = [(goal.instruction_text, _PAGES_PER_QUERY), (product.title, _PAGES_PER_QUERY)]
    attempts.append((f"<q> {product.query}", len(engine.catalogue)))
    for words, num_pages in attempts:
        actions = _find(session, words, num_pages)
        if actions:
            break
    else:
        raise ValueError(f"The product {goal.asin!r} of goal {goal_index} is found by no search.")
    actions += [f"click[{value}]" for value in _choices(session, goal)]
    actions.append(f"click[{pages.BUY.lower()}]")
    return actions


def _find(session: Session, words: str, num_pages: int) -> list[str]:
    """Search and page until the goal product is open; return the actions taken, none if it is not among the results."""
    query = " ".join(words.replace("[", " ").replace("]", " ").split("\n"))  # brackets would end the action's argument
    actions = [f"search[{query}]"]
    if not query or not session.act(actions[0]).valid:
        return []
    for _ in range(num_pages):
        shown = session.shown_products()
        if any(product.asin == session.goal.asin for product in shown):
            actions.append(f"click[{session.goal.asin.lower()}]")
            session.act(actions[-1])
            return actions
        if len(shown) < pages.PER_PAGE:
            return []
        actions.append(f"click[{pages.NEXT.lower()}]")
        session.act(actions[-1])
    return []


def _choices(session: Session, goal: Goal) -> list[str]:
    """Return one value to click for each wanted option that is not met yet, on axes that are still free."""
    chosen: dict[str, str] = {}
    axis_of = {
        value: axis for axis, values in session.product.options for value in values
    }  # a click sets the last axis
    clickable = [value for value in axis_of if f"click[{value}]" in session.available_actions()]
    buttons = {button.lower() for button in pages.item_buttons(True)}
    for wanted in goal.goal_options:
        if any(option_matches(value, wanted) for value in chosen.values()):
            continue
        exact = wanted if isinstance(wanted, str) else wanted[1]
        fitting = [
            value
            for value in clickable
            if axis_of[value] not in chosen and value not in buttons and option_matches(value, wanted)
        ]
        if fitting:
            value = exact if exact in fitting else fitting[0]
            chosen[axis_of[value]] = value
    return list(chosen.values())
