# SPDX-License-Identifier: MIT
"""Owns predict()'s reports of NaN and infinity in its outputs: how many there are, and which operation produces the first.
One idea: finite outputs cost only one check. Otherwise the program runs once more with every value kept."""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple

import numpy as np

from ._propane import lib
from .error import PropaneError, invalid, structure, text, text_or_none

if TYPE_CHECKING:
    from .session import Session

ACTIONS = ("warn", "raise", "ignore")


class NonfiniteWarning(RuntimeWarning):
    """Outputs contain NaN or infinity.

    outputs: {name: (NaN, infinities)}. op and name: the first operation that produces some, or None if it was not searched
    for or the inputs contain them. made: False if they come from the inputs alone.
    """

    def __init__(self, sentence: str, outputs: Dict[str, Tuple[int, int]], op: Optional[str], name: Optional[str],
                 made: bool) -> None:
        super().__init__(sentence)
        self.outputs, self.op, self.name, self.made = outputs, op, name, made


def check_action(action: str) -> None:
    if action not in ACTIONS:
        raise invalid(f"nonfinite='{action}': it is one of {', '.join(ACTIONS)}")


def counts(made: Mapping[str, Any]) -> Dict[str, Tuple[int, int]]:
    """Returns the numbers of NaN and infinities of the arrays that contain any."""
    found = {}
    for name, array in made.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            found[name] = (int(np.isnan(array).sum()), int(np.isinf(array).sum()))
    return found


def _words(nan: int, infinite: int) -> str:
    words = [f"{nan} NaN"] if nan else []
    return ", ".join(words + ([f"{infinite} infinit{'y' if infinite == 1 else 'ies'}"] if infinite else []))


def explain(outputs: Dict[str, Tuple[int, int]], sizes: Mapping[str, int], kept: Optional[Session],
            inputs: Mapping[str, Any]) -> NonfiniteWarning:
    """kept: a session with every value kept, in which the program runs once more, or None if that is not possible."""
    first = next(iter(outputs))
    others = len(outputs) - 1
    sentence = f"output '{first}' has {_words(*outputs[first])} of {sizes[first]}"
    sentence += f" (and {others} other output{'' if others == 1 else 's'})" if others else ""
    if kept is None:
        return NonfiniteWarning(sentence, outputs, None, None, True)
    for name, value in inputs.items():
        kept.set(name, value)
    found = structure("propane_nonfinite")
    kept._check(lib.propane_session_run_counted(kept._alive(), found, kept._err))
    if not (found.nan or found.infinite):
        return NonfiniteWarning(f"{sentence}: with every value kept the outputs are finite", outputs, None, None, True)
    made = bool(found.made)
    return NonfiniteWarning(f"{sentence}: {text(found.text)}", outputs, text_or_none(found.op),
                            (text(found.name) or None) if made else None, made)


def tell(said: NonfiniteWarning, action: str) -> None:
    """Called only by predict(): the warning is attributed to predict()'s caller."""
    if action == "raise" and said.made:
        raise PropaneError(lib.PROPANE_ERR_LIMIT, str(said))
    warnings.warn(said, stacklevel=3)
