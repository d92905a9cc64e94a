#!/usr/bin/env python3
"""Asks a rate limit service over gRPC, and learns how from the service itself: no compiled stubs.

    pip install grpcio grpcio-reflection protobuf
    python3 ask.py localhost:8081 shop user=alice path=/login

Everything after the domain is one descriptor, entry by entry.
"""

import sys

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"


def main(address, domain, *entries):
    with grpc.insecure_channel(address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        print("services:", *sorted(database.get_services()))
        pool = descriptor_pool.DescriptorPool(database)
        method = pool.FindServiceByName(SERVICE).FindMethodByName("ShouldRateLimit")
        request_type, response_type = map(
            message_factory.GetMessageClass, (method.input_type, method.output_type)
        )
        ask = channel.unary_unary(
            f"/{SERVICE}/ShouldRateLimit",
            request_serializer=request_type.SerializeToString,
            response_deserializer=response_type.FromString,
        )
        pairs = [dict(zip(("key", "value"), entry.split("=", 1))) for entry in entries]
        request = {"domain": domain, "descriptors": [{"entries": pairs}]}
        response = ask(json_format.ParseDict(request, request_type()), timeout=5)
        print(json_format.MessageToJson(response))


if __name__ == "__main__":
    main(*sys.argv[1:])
