"""A simulated town with people, places and an epidemic, for the demo and for load tests. No I/O and no clock."""

from monitor.tools.town.epidemic import EpidemicParameters
from monitor.tools.town.places import Kind, Place, find_kind, make_places, make_places_from_ids
from monitor.tools.town.town import SimulatedVisit, Town, VisitBatch

__all__ = [
    "EpidemicParameters",
    "Kind",
    "Place",
    "SimulatedVisit",
    "Town",
    "VisitBatch",
    "find_kind",
    "make_places",
    "make_places_from_ids",
]
