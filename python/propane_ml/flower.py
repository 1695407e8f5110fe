# SPDX-License-Identifier: MIT
"""Federated training of Propane's models with Flower: machines come and go, and each keeps its data.

    # client_app.py                                        # server_app.py
    import propane_ml.flower as flower                     import propane_ml.flower as flower

    def learns(context):                                   app = flower.server_app()
        return dict(model="qwen", lora=8,
                    data=context.node_config["data"])

    app = flower.client_app(learns)

Needs `pip install "propane-ml[flower]"`. examples/flower is a complete project, and docs/distributed.md explains when to use
it. RUN_CONFIG lists what a run's configuration may contain; `flwr run --run-config` sets other values.
"""
from .flower_client import client_app
from .flower_server import RUN_CONFIG, FedAvg, FedAvgM, Outer, server_app

__all__ = ["client_app", "server_app", "FedAvg", "FedAvgM", "Outer", "RUN_CONFIG"]
