"""Continuous batching: many requests share the steps of one decoder.

    submit -> WaitingLine -> Roster, SequencePool -> StepPlan -> decoder -> Answer -> Ticket -> Handle

A step lets every running sequence decode one token and takes a chunk of the next prompts, as large as
PrefillPace finds bearable. What was computed stays as a prefix for later requests until its memory is needed.
"""

from rase_core.scheduler.events import Ended, Event, Failed, OnEvent, Piece
from rase_core.scheduler.handle import Handle
from rase_core.scheduler.limits import SchedulerLimits
from rase_core.scheduler.outbox import put_off
from rase_core.scheduler.request import GenerationRequest
from rase_core.scheduler.scheduler import Scheduler
from rase_core.scheduler.snapshot import Snapshot, Totals

__all__ = [
    "Ended",
    "Event",
    "Failed",
    "GenerationRequest",
    "Handle",
    "OnEvent",
    "Piece",
    "Scheduler",
    "SchedulerLimits",
    "Snapshot",
    "Totals",
    "put_off",
]
