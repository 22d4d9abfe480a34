"""`holdfast scaffold`: files of a repository that follow from holdfast.yaml."""
