"""Exact solver: the shortest list of moves that solves a room."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from agent_envs.envs.sokoban.rules import (
    BOX,
    BOX_ON_TARGET,
    OPPOSITE,
    TARGET,
    WALL,
    find_player,
    fixed_layout,
    neighbours,
)

_Node = tuple[int, tuple[int, ...]]

_NEVER = 1 << 30
_MAX_MATCHED_BOXES = 6


def solve(room: bytes, width: int, *, max_moves: int | None = None, node_limit: int = 200_000) -> list[int] | None:
    """Return the directions (0-3) of a shortest solution, counted in moves, or None.

    Best-first search over (player, sorted boxes) whose edges are pushes: the walk to a box is one breadth-first flood
    of the player's area and costs its length, so only positions right after a push are stored. The bound on the moves
    that remain, see :func:`_make_bound`, never overestimates and falls by at most one per push, so the first solved
    position taken has the fewest moves. Cells from which a box reaches no target (corners, for one) stay empty.

    Args:
        room: Cell codes.
        width: Number of columns.
        max_moves: Give up on solutions longer than this.
        node_limit: Give up after this many expanded positions.

    Returns:
        The moves, ``[]`` for a solved room; None if there is no solution within the limits.
    """
    tables = neighbours(len(room) // width, width)
    fixed = fixed_layout(room)
    targets = tuple(cell for cell, code in enumerate(fixed) if code == TARGET)
    boxes = tuple(cell for cell, code in enumerate(room) if code in (BOX, BOX_ON_TARGET))
    bound = _make_bound(fixed, tables, targets)
    alive = [pushes >= 0 for pushes in _pushes_to(targets, fixed, tables)]
    limit = _NEVER if max_moves is None else max_moves + 1
    least = bound(boxes)
    if least >= limit:
        return None
    start: _Node = (find_player(room), boxes)
    cost = {start: 0}
    parents: dict[_Node, tuple[_Node, int, int]] = {}
    queue: list[list[_Node]] = [[start]]  # place = moves so far + bound - least
    done: set[_Node] = set()
    place = 0
    while place < len(queue):
        if not queue[place]:
            place += 1
            continue
        node = queue[place].pop()
        if node in done:
            continue
        if node[1] == targets:
            return _moves_to(node, parents, fixed, tables)
        if len(done) >= node_limit:
            return None
        done.add(node)
        for child, walked, box, direction in _pushes(node, fixed, tables, alive):
            moves = cost[node] + walked + 1
            if moves >= cost.get(child, _NEVER):
                continue
            total = moves + bound(child[1])
            if total >= limit:
                continue
            cost[child] = moves
            parents[child] = (node, box, direction)
            queue.extend([] for _ in range(total - least + 1 - len(queue)))
            queue[total - least].append(child)
    return None


def _make_bound(
    fixed: bytes, tables: tuple[tuple[int, ...], ...], targets: tuple[int, ...]
) -> Callable[[tuple[int, ...]], int]:
    """Return a lower bound on the pushes that boxes still need, ``_NEVER`` if they cannot be solved.

    The cheapest assignment of boxes to targets, each box alone on the board; with more than six boxes, where the
    assignment costs more than it saves, the sum over boxes of the pushes to the nearest target.
    """
    by_target = [_pushes_to((target,), fixed, tables) for target in targets]
    needs = [[pushes if pushes >= 0 else _NEVER for pushes in row] for row in zip(*by_target, strict=True)]
    nearest = [min(row) for row in needs]
    known: dict[tuple[int, ...], int] = {}

    def bound(boxes: tuple[int, ...]) -> int:
        if len(targets) > _MAX_MATCHED_BOXES:
            return min(sum(nearest[box] for box in boxes), _NEVER)
        if boxes not in known:
            best = {0: 0}  # cheapest assignment of the boxes so far to each set of targets, a bit mask
            for box in boxes:
                longer: dict[int, int] = {}
                for used, pushes in best.items():
                    for i, more in enumerate(needs[box]):
                        key = used | 1 << i
                        if key != used and pushes + more < longer.get(key, _NEVER):
                            longer[key] = pushes + more
                best = longer
            known[boxes] = min(best.values(), default=_NEVER)
        return known[boxes]

    return bound


def _pushes_to(targets: tuple[int, ...], fixed: bytes, tables: tuple[tuple[int, ...], ...]) -> list[int]:
    """Return for each cell the pushes a lone box needs to the nearest of ``targets``, -1 where none is reachable."""
    pushes = [-1] * len(fixed)
    for target in targets:
        pushes[target] = 0
    queue = deque(targets)
    while queue:
        cell = queue.popleft()
        for direction in range(4):
            # A box came from the cell behind, pushed by a player who stood one further back.
            source = tables[OPPOSITE[direction]][cell]
            stand = tables[OPPOSITE[direction]][source] if source >= 0 else -1
            if stand >= 0 and fixed[source] != WALL and fixed[stand] != WALL and pushes[source] < 0:
                pushes[source] = pushes[cell] + 1
                queue.append(source)
    return pushes


def _pushes(
    node: _Node, fixed: bytes, tables: tuple[tuple[int, ...], ...], alive: list[bool]
) -> list[tuple[_Node, int, int, int]]:
    """Return ``(position after the push, steps walked before, box, direction)`` of every useful push."""
    player, boxes = node
    steps = [-1] * len(fixed)
    steps[player] = 0
    queue = [player]
    found = []
    for cell in queue:
        walked = steps[cell]
        for direction, table in enumerate(tables):
            to = table[cell]
            if to < 0 or steps[to] >= 0 or not fixed[to]:
                continue
            if to not in boxes:
                steps[to] = walked + 1
                queue.append(to)
                continue
            landing = table[to]
            if landing >= 0 and alive[landing] and landing not in boxes:
                moved = sorted(landing if box == to else box for box in boxes)
                found.append(((to, tuple(moved)), walked, to, direction))
    return found


def _moves_to(
    node: _Node,
    parents: dict[_Node, tuple[_Node, int, int]],
    fixed: bytes,
    tables: tuple[tuple[int, ...], ...],
) -> list[int]:
    """Return all moves from the start to ``node``, walks included."""
    parts = []
    while node in parents:
        node, box, direction = parents[node]
        parts.append([*_walk(node, tables[OPPOSITE[direction]][box], fixed, tables), direction])
    return [move for part in reversed(parts) for move in part]


def _walk(node: _Node, goal: int, fixed: bytes, tables: tuple[tuple[int, ...], ...]) -> list[int]:
    """Return a shortest walk of the player to ``goal`` between the boxes."""
    player, boxes = node
    came: dict[int, tuple[int, int]] = {player: (player, -1)}
    queue = deque([player])
    while goal not in came:
        cell = queue.popleft()
        for direction, table in enumerate(tables):
            to = table[cell]
            if to >= 0 and fixed[to] and to not in boxes and to not in came:
                came[to] = (cell, direction)
                queue.append(to)
    moves: list[int] = []
    while goal != player:
        goal, direction = came[goal]
        moves.append(direction)
    return moves[::-1]
