# SPDX-License-Identifier: MIT
"""Owns what predict() says of NaN and infinity in its outputs: how many there are, and which operation makes the first. One idea:
outputs that are finite cost one look at them; only where they are not, the program runs once more with every value kept."""
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
    """Outputs have NaN or infinity.

    outputs: {name: (NaN, infinities)}; op and name: the first operation that makes some, None where it was not looked for or the
    inputs hold them; made: False where they come from the inputs alone."""

    def __init__(self, sentence: str, outputs: Dict[str, Tuple[int, int]], op: Optional[str], name: Optional[str],
                 made: bool) -> None:
        super().__init__(sentence)
        self.outputs, self.op, self.name, self.made = outputs, op, name, made


def check_action(action: str) -> None:
    if action not in ACTIONS:
        raise invalid(f"nonfinite='{action}': it is one of {', '.join(ACTIONS)}")


def counts(made: Mapping[str, Any]) -> Dict[str, Tuple[int, int]]:
    """Of the arrays that have such numbers: how many NaN and infinities."""
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
    """kept: a session with every value kept, in which the program runs once more; None: it cannot be had."""
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
    """Called by predict() alone: the warning's place is where that was called."""
    if action == "raise" and said.made:
        raise PropaneError(lib.PROPANE_ERR_LIMIT, str(said))
    warnings.warn(said, stacklevel=3)
