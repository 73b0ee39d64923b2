"""What stands behind the ports: stores, buses and models. None of them knows another."""
