"""The steps of `holdfast state` that change a state: show, ask, write."""
