"""Search over a text corpus."""

if __name__ == "retriever":  # the checkout root is on sys.path: the bare name would load a second copy of every class
    raise ImportError("import agent_envs.retriever, not retriever")
