# SPDX-License-Identifier: MIT
"""Federated training of Propane's models by Flower: machines that come and go, each with data that stays where it is.

    # client_app.py                                        # server_app.py
    import propane_ml.flower as flower                     import propane_ml.flower as flower

    def learns(context):                                   app = flower.server_app()
        return dict(model="qwen", lora=8,
                    data=context.node_config["data"])

    app = flower.client_app(learns)

Needs `pip install "propane-ml[flower]"`. examples/flower is a whole project, docs/distributed.md tells when to use it. What the
run's configuration may say is RUN_CONFIG; `flwr run` takes other values with --run-config.
"""
from .flower_client import client_app
from .flower_server import RUN_CONFIG, FedAvg, FedAvgM, Outer, server_app

__all__ = ["client_app", "server_app", "FedAvg", "FedAvgM", "Outer", "RUN_CONFIG"]
