"""The contract of every `DispatchQueue`: subclass `QueueContract` and give it a `queue` fixture made from `clock`."""

from __future__ import annotations

from tests.contracts.queue.actions import ActionsContract
from tests.contracts.queue.admission import AdmissionContract
from tests.contracts.queue.case import LEASE_MS, Clock
from tests.contracts.queue.clock_steps import ClockStepsContract
from tests.contracts.queue.deadlines import DeadlinesContract
from tests.contracts.queue.decisions import DecisionsContract
from tests.contracts.queue.explain import TellingContract
from tests.contracts.queue.feedback import FeedbackContract
from tests.contracts.queue.holds import HoldsContract
from tests.contracts.queue.leases import LeaseContract
from tests.contracts.queue.load import LoadContract
from tests.contracts.queue.order import OrderContract
from tests.contracts.queue.parking import ParkingContract
from tests.contracts.queue.preemption import PreemptionContract
from tests.contracts.queue.rates import RatesContract
from tests.contracts.queue.rebuilding import RebuildContract
from tests.contracts.queue.sharing import SharesContract
from tests.contracts.queue.sliding import SlidingContract
from tests.contracts.queue.tenants import TenantsContract
from tests.contracts.queue.threads import ThreadsContract

__all__ = ["LEASE_MS", "Clock", "QueueContract"]


class QueueContract(
    ActionsContract,
    AdmissionContract,
    ClockStepsContract,
    DeadlinesContract,
    DecisionsContract,
    FeedbackContract,
    HoldsContract,
    LeaseContract,
    LoadContract,
    OrderContract,
    ParkingContract,
    PreemptionContract,
    RatesContract,
    RebuildContract,
    SharesContract,
    SlidingContract,
    TellingContract,
    ThreadsContract,
    TenantsContract,
):
    """All promises."""
