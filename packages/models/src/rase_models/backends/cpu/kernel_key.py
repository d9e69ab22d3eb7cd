"""The name of one compiled kernel: which source, for which parameters."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class KernelKey:
    """A kernel builder's name in `kernels.BUILDERS` and the arguments that it is called with."""

    name: str
    parameters: tuple[str | int, ...] = ()

    @property
    def symbol(self) -> str:
        """The name of the kernel in object code and, with a suffix, in the cache."""
        return "_".join(["rase", self.name, *(str(parameter).lower() for parameter in self.parameters)])
