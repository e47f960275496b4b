"""The shipped environments: one ``register_env`` line each, strings only, so that importing stays light."""

from agent_envs.registration import register_env


def register_all() -> None:
    """Register every shipped id with Gymnasium; calling it again is harmless."""
    register_env("agent_envs/Sokoban-v0", "agent_envs.envs.sokoban:SokobanEnv", max_turns=15)
    register_env("agent_envs/EZPoints-v0", "agent_envs.envs.cards:EZPointsEnv", max_turns=8)
    register_env("agent_envs/Points24-v0", "agent_envs.envs.cards:Points24Env", max_turns=20)
    register_env("agent_envs/NumberLine-v0", "agent_envs.envs.cards:NumberLineEnv", max_turns=10)
    register_env("agent_envs/Blackjack-v0", "agent_envs.envs.cards:BlackjackEnv", max_turns=15)
    register_env("agent_envs/ALFWorld-v0", "agent_envs.envs.alfworld.env:ALFWorldEnv", max_turns=50)
    register_env("agent_envs/WebShop-v0", "agent_envs.envs.webshop.env:WebShopEnv", max_turns=15)
    register_env("agent_envs/AppWorld-v0", "agent_envs.envs.appworld:AppWorldEnv", max_turns=50, executor="threads")
    register_env("agent_envs/SearchQA-v0", "agent_envs.envs.search_qa:SearchQAEnv", max_turns=4, executor="threads")
