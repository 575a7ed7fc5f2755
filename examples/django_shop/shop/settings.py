"""Settings of the shop."""

import os

import django

SECRET_KEY = "only-for-this-example"  # noqa: S105 - it signs nothing here
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", "shop.db"),
    }
}
INSTALLED_APPS = ["postdate.django", "shop"]
if django.VERSION < (6, 0):
    INSTALLED_APPS += ["django_tasks"]  # the backport

TASKS = {
    "default": {
        "BACKEND": "postdate.django.backend.PostdateBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"enqueue": "on_commit", "retry": 3},
    }
}
