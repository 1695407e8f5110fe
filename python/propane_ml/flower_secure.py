# SPDX-License-Identifier: MIT
"""Owns rounds with SecAgg+ as Flower 1.41 implements it: its workflow of four stages and the client's mod, which use
Flower's older interface. The server gets sums of masked, quantized weights, never one client's; it does get each client's
loss and number of tokens. One idea: everything else is the same as without it, except the outer step: Flower's workflow does
its own aggregation, so the strategy is FedAvg."""
from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid

from .error import invalid
from .flower_client import from_record, payload, to_record

# Weights are clipped to this before they are quantized to 22 bits: a step of 4e-6.
CLIPPING = 8.0


def secure_rounds(grid: Grid, context: Context, s: Mapping[str, Any], first: ArrayRecord,
                  evaluate: Callable[[int, ArrayRecord], Optional[MetricRecord]]) -> Tuple[ArrayRecord, List[Dict[str, Any]]]:
    from flwr.common import ndarrays_to_parameters
    from flwr.server import LegacyContext, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_PARAMS_RECORD
    if s["strategy"] != "fedavg":
        raise invalid(f"strategy is '{s['strategy']}'; with secure aggregation it is fedavg, as Flower's workflow averages by itself")
    names, rounds = list(first), []  # type: List[str], List[Dict[str, Any]]
    sent = payload(first)

    def told(results: List[Tuple[int, Dict[str, Any]]]) -> Dict[str, Any]:
        total = sum(m["tokens"] for _, m in results)
        line: Dict[str, Any] = {"round": len(rounds) + 1, "clients": len(results), "secure": True, "tokens": total,
                                "loss": sum(m["tokens"] * m["loss"] for _, m in results) / total, "bytes_down": sent * len(results)}
        rounds.append(line)
        if s["log"]:
            with open(s["log"], "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        return {"loss": line["loss"]}

    def central(server_round: int, arrays: Any, _: Any) -> Optional[Tuple[float, Dict[str, Any]]]:
        seen = evaluate(server_round, to_record(dict(zip(names, arrays))))
        return None if seen is None else (float(str(seen["loss"])), {})

    strategy = FedAvg(fraction_fit=s["fraction-train"], fraction_evaluate=0.0, min_fit_clients=s["min-nodes"],
                      min_available_clients=s["min-nodes"], evaluate_fn=central, fit_metrics_aggregation_fn=told,
                      initial_parameters=ndarrays_to_parameters([first[name].numpy() for name in names]),
                      on_fit_config_fn=lambda r: {"local-steps": s["local-steps"], "num-server-rounds": s["num-server-rounds"],
                                                  "server-round": r})
    legacy = LegacyContext(context, ServerConfig(num_rounds=s["num-server-rounds"]), strategy)
    workflow = SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=0.6, clipping_range=CLIPPING, max_weight=1.0,
                                  timeout=s["round-timeout"])
    DefaultWorkflow(fit_workflow=workflow)(grid, legacy)
    return to_record(from_record(legacy.state.array_records[MAIN_PARAMS_RECORD], names)), rounds


__all__ = ["secure_rounds", "CLIPPING"]
