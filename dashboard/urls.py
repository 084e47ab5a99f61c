"""Addresses of the pages. The live page is at the root, so include this module last and without a prefix."""

from django.urls import path

from dashboard import (
    alerts_views,
    catalog,
    groups_views,
    guide_views,
    messages_views,
    reports_views,
    topics_views,
    views,
)

app_name = "dashboard"
urlpatterns = [
    path("", views.live, name="live"),
    path("holds/<int:hold_id>", views.hold, name="hold"),
    path("connections", groups_views.connections, name="connections"),
    path("groups", groups_views.groups, name="groups"),
    path("groups/<str:name>", groups_views.group, name="group"),
    path("groups/<str:name>/dead-letters", groups_views.dead_letters, name="dead-letters"),
    path("topics", topics_views.topics, name="topics"),
    path("topics/<str:name>", topics_views.topic, name="topic"),
    path("messages", messages_views.messages, name="messages"),
    path("messages/<path:message_id>", messages_views.message, name="message"),
    path("alerts", alerts_views.alerts, name="alerts"),
    path("reports", reports_views.reports, name="reports"),
    path("guide", guide_views.chapter, name="guide"),
    path("guide/<path:name>", guide_views.chapter, name="guide-chapter"),
    path("catalog/<str:language>.js", catalog.catalog, name="catalog"),
    path("favicon.ico", views.favicon, name="favicon"),
]
