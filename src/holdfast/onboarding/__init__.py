"""`holdfast init`: scan a repository and write a starter configuration."""
