"""The portal floor: pages, the API and the command."""
