"""Schedulers compared: launches, their lower bound and analysis time, on models, workloads and random graphs."""
