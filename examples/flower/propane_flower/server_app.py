# SPDX-License-Identifier: MIT
"""The server: the run's configuration determines what it does (pyproject.toml, flwr run --run-config)."""
import propane_ml.flower as flower

app = flower.server_app()
