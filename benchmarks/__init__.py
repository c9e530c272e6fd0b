"""Measurements that anybody can repeat: ``make bench``."""
