"""Whole machines: the image and docker-compose.yml under podman, and three hosts as network namespaces.  `make test-machines` runs them."""
