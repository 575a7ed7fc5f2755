"""Tools for assistants that speak MCP, made from the operations of the API."""
