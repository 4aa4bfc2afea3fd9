"""Why a layer that runs gives other numbers: the known mistakes as data, and `diagnose`."""

from qkv.mistakes._diagnose import Diagnosis, Explanation, diagnose
from qkv.mistakes._known import Mistake, known, parts, symptoms

__all__ = ["Diagnosis", "Explanation", "Mistake", "diagnose", "known", "parts", "symptoms"]
