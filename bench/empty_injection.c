/* Empty library for CUDA_INJECTION64_PATH, to measure the overhead of the variable alone. */
int InitializeInjection(void);

int InitializeInjection(void)
{
	return 1;
}
