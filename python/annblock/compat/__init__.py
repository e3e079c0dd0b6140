"""Neighbours: what lets stores be used from other loaders, and their parts with ours. Each module needs the package it is named after."""
