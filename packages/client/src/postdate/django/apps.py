"""The application in `INSTALLED_APPS`, which brings the command `postdate_worker`."""

from django.apps import AppConfig


class PostdateConfig(AppConfig):  # type: ignore[misc] # Django has no types
    """Name the application: `django`, the last part of its path, would be anybody's."""

    name = "postdate.django"
    label = "postdate"
    verbose_name = "Postdate"
