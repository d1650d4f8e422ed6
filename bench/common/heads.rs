//! Request heads as the published clients send them.

/// Client and verb, and the head.
pub(crate) const HEADS: [(&str, &[u8]); 5] = [
    (
        "rust_push",
        b"POST /api/v1/ephemeral/push HTTP/1.1\r\n\
          content-type: application/json\r\n\
          accept: */*\r\n\
          host: 127.0.0.1:6632\r\n\
          content-length: 312\r\n\r\n",
    ),
    (
        "rust_pop",
        b"GET /api/v1/ephemeral/pop?queue=reply%2F42&partition=room%207&batch=1&wait=true\
          &timeout=30000&group=widget&autoAck=true HTTP/1.1\r\n\
          content-type: application/json\r\n\
          accept: */*\r\n\
          host: 127.0.0.1:6632\r\n\r\n",
    ),
    (
        "python_push",
        b"POST /api/v1/ephemeral/push HTTP/1.1\r\n\
          Host: 127.0.0.1:6632\r\n\
          Accept: */*\r\n\
          Accept-Encoding: gzip, deflate, br, zstd\r\n\
          Connection: keep-alive\r\n\
          User-Agent: python-httpx/0.28.1\r\n\
          Content-Length: 312\r\n\
          Content-Type: application/json\r\n\r\n",
    ),
    (
        "javascript_push",
        b"POST /api/v1/ephemeral/push HTTP/1.1\r\n\
          host: 127.0.0.1:6632\r\n\
          connection: keep-alive\r\n\
          Content-Type: application/json\r\n\
          accept: */*\r\n\
          accept-language: *\r\n\
          sec-fetch-mode: cors\r\n\
          user-agent: node\r\n\
          accept-encoding: gzip, deflate\r\n\
          content-length: 312\r\n\r\n",
    ),
    (
        "python_pop_with_token",
        b"GET /api/v1/ephemeral/pop?queue=presence&batch=10&wait=true&timeout=2000&group=a+b \
          HTTP/1.1\r\n\
          Host: queen.internal.example:6632\r\n\
          Accept: */*\r\n\
          Accept-Encoding: gzip, deflate\r\n\
          Connection: keep-alive\r\n\
          User-Agent: python-httpx/0.28.1\r\n\
          Authorization: Bearer eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ3aWRnZXQiLCJleHAiOjE5MDAwMDAwMDB9.\
          c2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0dXJlc2lnbmF0\r\n\r\n",
    ),
];
