//! The one seam to an I/O runtime: listen, read, write, wait until readable, sleep, spawn; owned
//! buffers everywhere. One runtime per thread. Knows neither HTTP nor queues.
