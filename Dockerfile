# One image for every process of the portal; docker-compose.yml says which one runs.
FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 DJANGO_SETTINGS_MODULE=portal.settings \
    GANGWAY_HOME=/var/lib/gangway

RUN useradd --system --create-home --home-dir /var/lib/gangway gangway
WORKDIR /srv/gangway
COPY requirements.lock .
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY . .
USER gangway
EXPOSE 8000
CMD ["gunicorn", "portal.wsgi"]
