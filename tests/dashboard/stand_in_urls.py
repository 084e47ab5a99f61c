"""Addresses that the stand-in serves: the dashboard's own, the login page, and a page that fails."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path


def login(request: HttpRequest) -> HttpResponse:
    return render(request, "login.html", {"error": "This token is not known here." if "bad" in request.GET else ""})


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("made to fail")


urlpatterns = [path("login", login), path("broken", broken), path("", include("dashboard.urls"))]
