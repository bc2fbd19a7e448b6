"""Every setting, read once from the environment; documented in docs/configuration.md.

Unset ones fall back to what ``make up`` left in ``.gangway/`` (addresses of the embedded
services, generated secrets), so that ``manage.py`` in a second terminal meets the same portal.
To add one: read it here by its GANGWAY_ name, add its line to docs/configuration.md.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from nodes.health.xids import own_classes

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()
GANGWAY_HOME = Path(env.str("GANGWAY_HOME", default=str(BASE_DIR / ".gangway")))


def left_by_make_up(name: str) -> dict[str, Any]:
    """Read a file of the portal's own folder; an absent one is an empty dictionary."""
    path = GANGWAY_HOME / name
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ImproperlyConfigured(
            f"{path} is not the JSON object that make up wrote. Restore it from a backup."
        )
    return found


_services = left_by_make_up("services.json")
_secrets = left_by_make_up("secrets.json")

DEBUG = env.bool("GANGWAY_DEBUG", default=False)
SECRET_KEY = env.str("GANGWAY_SECRET_KEY", default=_secrets.get("secret_key", ""))
GANGWAY_SECRET_KEYS: list[str] = env.list(
    "GANGWAY_SECRET_KEYS", default=_secrets.get("secret_keys", [])
)
GANGWAY_INSTANCE = env.str("GANGWAY_INSTANCE", default="")
if not GANGWAY_INSTANCE and (GANGWAY_HOME / "instance").exists():
    GANGWAY_INSTANCE = (GANGWAY_HOME / "instance").read_text().strip()

GANGWAY_DEMO = env.bool("GANGWAY_DEMO", default=False)
GANGWAY_URL = env.str("GANGWAY_URL", default="http://127.0.0.1:8000")
GANGWAY_HINTS = env.bool("GANGWAY_HINTS", default=True)
GANGWAY_LOOK_PERIOD_S = env.float("GANGWAY_LOOK_PERIOD_S", default=5.0)
GANGWAY_PROBE_PERIOD_S = env.float("GANGWAY_PROBE_PERIOD_S", default=30.0)
try:
    GANGWAY_XID_CLASSES = own_classes(env.json("GANGWAY_XID_CLASSES", default={}))
except ValueError as odd:
    raise ImproperlyConfigured(f"GANGWAY_XID_CLASSES cannot be read. {odd}") from odd
GANGWAY_GPU_RESERVE_MIB = env.int("GANGWAY_GPU_RESERVE_MIB", default=512)
GANGWAY_CYCLE_GAP_MS = env.int("GANGWAY_CYCLE_GAP_MS", default=250)
GANGWAY_LAUNCH_PATIENCE_S = env.int("GANGWAY_LAUNCH_PATIENCE_S", default=60)
GANGWAY_USAGE_HALF_LIFE_S = env.int("GANGWAY_USAGE_HALF_LIFE_S", default=7 * 24 * 3600)
GANGWAY_USAGE_PERIOD_S = env.int("GANGWAY_USAGE_PERIOD_S", default=3600)
GANGWAY_STARVATION_S = env.int("GANGWAY_STARVATION_S", default=7 * 24 * 3600)
GANGWAY_NO_SHOW_S = env.int("GANGWAY_NO_SHOW_S", default=900)
GANGWAY_MAX_ATTEMPTS = env.int("GANGWAY_MAX_ATTEMPTS", default=5)

ALLOWED_HOSTS: list[str] = env.list(
    "GANGWAY_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"]
)
GANGWAY_TRUSTED_PROXIES: list[str] = env.list("GANGWAY_TRUSTED_PROXIES", default=[])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("GANGWAY_TRUSTED_ORIGINS", default=[])
_https = GANGWAY_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _https else None
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "portal.views.errors.forged"
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

INSTALLED_APPS = [
    "portal.apps.PortalConfig",
    "scheduling.apps.SchedulingConfig",
    "nodes.apps.NodesConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "knox",
    "drf_spectacular",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "portal.middleware.ContentPolicy",
    "portal.middleware.NoNul",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.middleware.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.middleware.Refusals",
]
ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASE_URL = env.str("DATABASE_URL", default=_services.get("database_url", ""))
REDIS_URL = env.str("REDIS_URL", default=_services.get("redis_url", ""))
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        **env.db_url_config(DATABASE_URL or "postgresql:///gangway"),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }
}
DATABASES["default"].setdefault("OPTIONS", {})["connect_timeout"] = 10
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL or "redis://127.0.0.1:6379/0",
        "KEY_PREFIX": "gangway",
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "signin"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "signin"

LANGUAGE_CODE = "en"
TIME_ZONE = env.str("GANGWAY_TIME_ZONE", default="UTC")
USE_I18N = True
USE_TZ = True
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = BASE_DIR / "staticfiles"
WHITENOISE_USE_FINDERS = True
# Files are found where they lie; a folder of collected ones is optional.
warnings.filterwarnings("ignore", message="No directory at", category=UserWarning)
WHITENOISE_AUTOREFRESH = DEBUG

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "knox.auth.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "portal.api.errors.problem",
}
KNOX_TOKEN_MODEL = "knox.AuthToken"  # noqa: S105 - the name of a table
REST_KNOX = {
    "TOKEN_PREFIX": "gw_",
    "TOKEN_TTL": None,
    "AUTH_HEADER_PREFIX": "Bearer",
    "TOKEN_LIMIT_PER_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Gangway",
    "DESCRIPTION": "Share the GPUs of your own machines: submit jobs, read logs, see nodes.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.str("GANGWAY_LOG_LEVEL", default="INFO")},
    # Its threads print tracebacks for machines that left; ours say it in a sentence.
    "loggers": {"paramiko": {"level": "CRITICAL"}},
}
