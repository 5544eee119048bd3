"""What can stop a build."""


class BuildError(RuntimeError):
    """A build that cannot go on; what it has written so far stays, and the next start goes on from there."""


class EngineError(BuildError):
    """The cluster cannot do the work."""
