//! A token of each algorithm, signed elsewhere, with the keys that verify them. The private ones are gone.

use jsonwebtoken::Algorithm;

/// The shared secret of the HS algorithms.
pub(super) const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The public key of the RS and PS algorithms.
pub(super) const RSA: &str = "\
    -----BEGIN PUBLIC KEY-----\n\
    MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAnBf1nMp6K6GC45e/50M+\n\
    /nurrjMyi9JCu3iSpaAQO9x46FhsOiFIJVE4ERKo9dcNNGR70M2QbbXxx9aaYg6n\n\
    OZjDJAtKZonsLTErnMWqefq8vexgBmGgTxLkSv6gD3aq8h3NbqmDbs6rBgnvTpWi\n\
    bypB46iN7oN3ZKUhPsTwOQVN7C89xsR9SIlVd0vl2X6/bQHHRDwV3XbeQtks7WCc\n\
    jiBT5QgL0zG058SDUG0dOVOnHtGqJQRXs2RbllAHHcxIA+5XaDWEYWJ/XuCT4eXN\n\
    /vIc0DeWuYDqNduU9kjWHYAfnT2MM9ElH3BDYa28iPHe07IbmdMftSu1G7anFpFV\n\
    IwIDAQAB\n\
    -----END PUBLIC KEY-----\n";

/// The public key of ES256.
pub(super) const P_256: &str = "\
    -----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEp8l0pgp4n61/HlS85m5k2Z1YUCw/\n\
    /NFOImc0TBpsxSQIohfr1i8gPteBkbH7eFzLuhwxvurBl8p8DxT302UXQQ==\n\
    -----END PUBLIC KEY-----\n";

/// The public key of ES384.
pub(super) const P_384: &str = "\
    -----BEGIN PUBLIC KEY-----\n\
    MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEYPhSqoM9fIo8v/mUR5J16+IrPclvmPR4\n\
    dWF0RpEguQVlSozGFPiabnVLyr0lpMJ/ipMXt1QdJjgE3mS8CF6727O5cqscSaaV\n\
    +zIucCRCjF17kD3uXiwJnn2UBch4EUag\n\
    -----END PUBLIC KEY-----\n";

/// The public key of EdDSA.
pub(super) const ED_25519: &str = "\
    -----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAJ2gRh41hgtDUVH5qJbQtIjmZIsnmDgCURvnNlMiUgws=\n\
    -----END PUBLIC KEY-----\n";

/// Algorithm, key and token, whose subject is the algorithm's name and whose role is `admin`, until 2100.
pub(super) const TOKENS: [(Algorithm, &str, &str); 12] = [
    (
        Algorithm::HS256,
        SECRET,
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IkhTMjU2Iiwicm9\
         sZSI6ImFkbWluIn0.XmXp4W2ajn7eJtTVWlTCutRpylD3Rm_c4zS4HJrBD40",
    ),
    (
        Algorithm::HS384,
        SECRET,
        "eyJhbGciOiJIUzM4NCIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IkhTMzg0Iiwicm9\
         sZSI6ImFkbWluIn0.kjl7Lihdp8PUZOew24Cgoz2Rt8J5mglqHeERhbCMIjjJ5pWlSx9ovqn_IlkVhADC",
    ),
    (
        Algorithm::HS512,
        SECRET,
        "eyJhbGciOiJIUzUxMiIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IkhTNTEyIiwicm9\
         sZSI6ImFkbWluIn0.ObQWnzADiVY3ZN4aSZNy_RwpoFEsBnYpBdzX_LxOAy-x3Md9wvX6UjgJxppXoLqJ75K\
         Ge-KCPHHinf3S4wtSTw",
    ),
    (
        Algorithm::RS256,
        RSA,
        "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IlJTMjU2Iiwicm9\
         sZSI6ImFkbWluIn0.FhGjbW3LeK0MFri4SjTlIeygnvXg-zO6b6JOz4eTBFVTHmc6q8P2m9TPlK4OX8RzMj6\
         vIkN1-mBOXGbZBClGt4hga9UMbvODGksg1GMutm5KRcjhxuqNiekc2Tuof_k-qxV_Rh6TzhLxm_qHfVyOdTP\
         _RRTNypXyoiF5QyaodxXco7261cqXfHRwpojO-ZbXGOFd6ie72TmHeq8OvVq5vr-7z_0AB3hWf5RsChYDMh8\
         ekR8V7DVmHk9OA6XoGUvJLOYER3zb-UNKs0MtZAXybtMNchWBufTGA8v4CRnTfsCgEWj1JkXDAKq62nhZ5M_\
         7iJgr-JPOEsJ8R9eMRhax7Q",
    ),
    (
        Algorithm::RS384,
        RSA,
        "eyJhbGciOiJSUzM4NCIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IlJTMzg0Iiwicm9\
         sZSI6ImFkbWluIn0.E1h-vGYd8fp0_W-9hlSobhlK5RLyXjqIkXCmooj_Q1-qAm3V3yvKsP5aCGY8-IwP97g\
         wPlPC1GUNl3jzevWEimQ5l3ox_VxGFY33VEgFZriX9hDYj2b6DBDw_wOx6IsDuns-4dMx8pmCFE8fh9rS0vm\
         6AI4eKcyfN7tT5tww5qcDvP0eKNpICnVPtdDcVgvQkOB0VOnlIS9p6xMUR5mePCw-HDwvWmlK2uysCHiN0GX\
         eoA5czhR3cbE3WSz5Gk_s_HulBU-MMt9Xiqmrqr6iCh81E0o6nTsaxYKX4gtbVRyJ4H3YEbqr0aOxdVIRGcd\
         Oom1Ltp5OiY4uhc76Vsr5pw",
    ),
    (
        Algorithm::RS512,
        RSA,
        "eyJhbGciOiJSUzUxMiIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IlJTNTEyIiwicm9\
         sZSI6ImFkbWluIn0.Sg-Ica7G0dAfxMm8ef0hEJk13My8P03mwFhRhlVJD_10JZ9K3i-Tq9HID8YqW5mkknE\
         jQmAQ9UipSnwE2-hPSzfiQqdi9WtB-nMAJDsUUHJK-pz4uBpvBr52wDIpjcVHqeYDKXND8t83muKPQ98wpME\
         NsL5PB7rG0Y02EbRd4mHV2MYLMYKjV-tTof4UGLgAV3RZhi_45Q-ZFTeIUVHbuG67g197bNl-fZnyGbssXtl\
         J4Mp7gqKj0geqkCFXKzEdN9zrlsyGh1SSev_DKlevozg2Zh6yNvJcdXxMIQWrXdHlQ-1GnRHw5E7mCYWXsLd\
         cHPQS0Y5dItOZk5Ph0h1wDA",
    ),
    (
        Algorithm::PS256,
        RSA,
        "eyJhbGciOiJQUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IlBTMjU2Iiwicm9\
         sZSI6ImFkbWluIn0.BZ-ADwla9FIOf7QgiYaw9gqkZoJ5r4CgKPJUJSB7KM0koAIxwZDCcEZFRncpf3vwoPE\
         3tvOYjOoL7EaevZlX9D3serUvd6xx4IxBe1CoxcHl60FscBVwQs5PdiPOGeiX3zkGnU9gI3HzHRa6Y7QILq_\
         XoHv-UgBTGhxw1I_BzyUW3zgzQXlhOuIH1AAzDjQTTJfe-XHrlRan6APfKSUyCsrNZd8_QwGINmUGV1hul0o\
         cNk2enJvj7lAXIkUrUsMMirMAuNcWP9F3oCbh70EyWflR8Jejd_qyR0t_3f8csSBin1xAvpU8q2g2GBJyKQl\
         cLJw8NITAupQEVPKM50rl9Q",
    ),
    (
        Algorithm::PS384,
        RSA,
        "eyJhbGciOiJQUzM4NCIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IlBTMzg0Iiwicm9\
         sZSI6ImFkbWluIn0.Aew1kC95rz9cOJzqGh6KlyMxiAVQIWhoLjR2PDWGUktzWiTLJ1kDYacHLipTo60sibb\
         xGsQRJJ2JMdDNwolbF3pqYb3hM3jcbK-c4kugNHXM82zS1yPk6VuY14fjsG8LnLRRQAV3TydFa0zRd2GlGFF\
         y0CUAK1F-KvrbchIXNA3GFxrGPrVk9LDJKTquyMgde7625vRyvXZiP4nFeV6gEluLwWa7GWE2mwssh2ia_LV\
         Q62B-NpVDjkefsS_1U47s2NwA74vwwX4Dxo6MD_bdZHDXFPSsOTXge6tvv9syjllVLasJ4OCp5MeACiN8Eb4\
         rxrravcUJ1d7Y4Zd-GwsN9w",
    ),
    (
        Algorithm::PS512,
        RSA,
        "eyJhbGciOiJQUzUxMiIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IlBTNTEyIiwicm9\
         sZSI6ImFkbWluIn0.AIt3Q_lhCrYhrmwu7G7SkqFrhYoq2ovY_54FBZ6LZqAtRGLPbzn0BnFORmYTED6OHN5\
         eVJG5eWuFl8khVyyFL503zF1CAX0SxzbBfsPcb5Q2QGtXj_y0u78iNVpTsqkpT8mB_EbKdBwBPEASF9rgGGp\
         1COtza-elBe-JpmO7JDGxx0UpqEheZy4DZSE9xwyN0877xTBVZjt2ve6hJN_XTN1aE0tFtfphu_ffe1sD9ei\
         tQ1BzuIgN9qoRfSzm-JwH6ClGX4M_revGkmxWmlDN5erbg5uPZIGoeHsybPKtW7LkQB55NVyUOyIf65u173x\
         Dkngvsu9XEalfvDseX4zbTg",
    ),
    (
        Algorithm::ES256,
        P_256,
        "eyJhbGciOiJFUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IkVTMjU2Iiwicm9\
         sZSI6ImFkbWluIn0.3pZxZVTJyGbthOxt2dQQ1XepBKmbgW2dXdVmjbJZdubk9Y8oh7NmZ6N7u_3XzwyY5Kf\
         tvac8wJ18-NTBoaKkEg",
    ),
    (
        Algorithm::ES384,
        P_384,
        "eyJhbGciOiJFUzM4NCIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IkVTMzg0Iiwicm9\
         sZSI6ImFkbWluIn0.Z0TAomn3XYNYjijBhHyGTISEAiK4F0m9BoFLi92n0769WMOSEXnH26LI1ebfwLaQk0d\
         7jayl-VHG1xNmEyHtZgQjvJcq1KxlOheSdbes-_H3d7Ci4c7oqeDy-Hoiy8hu",
    ),
    (
        Algorithm::EdDSA,
        ED_25519,
        "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1YiI6IkVkRFNBIiwicm9\
         sZSI6ImFkbWluIn0.3PtjQVY962MZchC6dQw8BZxPQFVLT7Al_17y5OZTdDrxUHaQjDz2U-V2rqcQsoQQFPh\
         xhAzmds3awNOMHdNZDQ",
    ),
];
