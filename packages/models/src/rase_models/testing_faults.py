"""Models that go wrong, for tests of what becomes of the others."""

from dataclasses import dataclass, field, replace

from rase_core.errors import DeviceLost
from rase_core.manifest import ModelManifest

from rase_models.architectures import build_program
from rase_models.backends import load_backend
from rase_models.decoder import ProgramDecoder
from rase_models.gguf import GgufFile, OnBytes, open_gguf
from rase_models.memory_plan import MemoryPlan
from rase_models.room import Check, TakeRoom, nothing_against, unlimited
from rase_models.session import Session
from rase_models.session_loader import SessionLoader


@dataclass(frozen=True, slots=True)
class FaultyLoader(SessionLoader):
    """Loads so many models with a decoder of another kind, and then as others do."""

    kind: type[ProgramDecoder] = ProgramDecoder
    faults: int = 1

    def load(
        self,
        manifest: ModelManifest,
        device: str,
        *,
        may_fall_back: bool = False,
        room: TakeRoom = unlimited,
        check: Check = nothing_against,
    ) -> Session:
        """Load a model; raises what SessionLoader.load raises."""
        session = SessionLoader.load(
            self, manifest, device, may_fall_back=may_fall_back, room=room, check=check
        )
        if self.loads.total() <= self.faults:
            file = open_gguf(manifest.weights_path)
            program = build_program(file)
            runner = load_backend(device).load(program, file.weights())
            session.computing.decoder = self.kind(program, runner, frozenset())
        return session


@dataclass(frozen=True, slots=True)
class LosingLoader(SessionLoader):
    """Has one more device, with little memory for weights, that is lost while so many models are loaded."""

    extra: str = "cuda:99"
    losses: int = 0
    _lost: list[str] = field(default_factory=list)

    def _plan(self, file: GgufFile, device: str, registered: int | None = None) -> MemoryPlan:
        plan = SessionLoader._plan(self, file, self._instead(device), registered)
        return replace(plan, weights=0) if device == self.extra else plan

    def _decoder(
        self, file: GgufFile, device: str, plan: MemoryPlan, on_bytes: OnBytes | None = None
    ) -> ProgramDecoder:
        if device == self.extra and len(self._lost) < self.losses:
            self._lost.append(device)
            raise DeviceLost("cuda", "gone")
        return SessionLoader._decoder(self, file, self._instead(device), plan, on_bytes)

    def _instead(self, device: str) -> str:
        return "reference" if device == self.extra else device
