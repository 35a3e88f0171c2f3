"""What a deployment needs besides the image: the Helm chart, the logins for Redis."""
