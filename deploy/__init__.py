"""What a deployment needs besides the image: the Helm chart, and the logins for Redis."""
