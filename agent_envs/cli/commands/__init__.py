"""One module per sub-command of ``agent-envs``: ``EXAMPLES``, ``add_arguments(parser)`` and ``run(args)``."""
