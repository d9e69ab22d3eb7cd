"""Models that go wrong, for tests of what becomes of the others."""

from dataclasses import dataclass

from rase_core.manifest import ModelManifest

from rase_models.architectures import build_program
from rase_models.backends import load_backend
from rase_models.decoder import ProgramDecoder
from rase_models.gguf import open_gguf
from rase_models.session import Session
from rase_models.session_loader import SessionLoader


@dataclass(frozen=True, slots=True)
class FaultyLoader(SessionLoader):
    """Loads so many models with a decoder of another kind, and then as others do."""

    kind: type[ProgramDecoder] = ProgramDecoder
    faults: int = 1

    def load(self, manifest: ModelManifest, device: str, *, may_fall_back: bool = False) -> Session:
        """Load a model; raises what SessionLoader.load raises."""
        session = SessionLoader.load(self, manifest, device, may_fall_back=may_fall_back)
        if self.loads.total() <= self.faults:
            file = open_gguf(manifest.weights_path)
            program = build_program(file)
            runner = load_backend(device).load(program, file.weights())
            session.computing.decoder = self.kind(program, runner, frozenset())
        return session
