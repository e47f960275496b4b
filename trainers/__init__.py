"""Advantage estimators and trainers that read the same recipes."""

if __name__ == "trainers":  # the checkout root is on sys.path: the bare name would load a second copy of every class
    raise ImportError("import agent_envs.trainers, not trainers")
