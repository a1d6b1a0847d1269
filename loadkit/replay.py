"""The main job: wires the rooms together for one replay."""
