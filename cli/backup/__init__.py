"""What a backup holds, and how it is copied there and back."""
