"""AppWorld: Python code against simulated everyday apps, executed in sandboxed processes of their own."""
