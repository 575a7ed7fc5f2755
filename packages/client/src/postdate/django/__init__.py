"""Tasks of Django (`django.tasks`) that run as jobs: a backend, and a worker beside `manage.py`."""
